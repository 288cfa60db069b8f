# cmake -DPARTS=index.html;style.css;a.js;... -DOUT=page.c -P embed.cmake
# Writes the page as two arrays of bytes: the parts before and after the data of the runs.
# All of it happens on hexadecimal digits, so no byte can be mistaken for a list or a quote.
list(POP_FRONT PARTS index style)
file(READ "${index}" page HEX)
file(READ "${style}" style HEX)
set(script "")
foreach(part IN LISTS PARTS)
    file(READ "${part}" text HEX)
    string(APPEND script "${text}")
endforeach()

# The digits of "@NAME@".
set(mark_style 405354594c4540)
set(mark_script 4053435249505440)
set(mark_data 404441544140)
string(REPLACE ${mark_style} "${style}" page "${page}")
string(REPLACE ${mark_script} "${script}" page "${page}")
string(FIND "${page}" ${mark_data} at)
if(at EQUAL -1)
    message(FATAL_ERROR "${index} has no place for the data")
endif()
string(LENGTH ${mark_data} mark_len)
math(EXPR after "${at} + ${mark_len}")
string(SUBSTRING "${page}" 0 ${at} head)
string(SUBSTRING "${page}" ${after} -1 tail)

set(code "#include \"page.h\"\n")
foreach(name head tail)
    string(LENGTH "${${name}}" digits)
    math(EXPR len "${digits} / 2")
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${${name}}")
    string(REGEX REPLACE "(....................................................................................................)"
           "\\1\n" bytes "${bytes}")
    string(APPEND code "\nconst size_t rep_page_${name}_len = ${len};\n"
                       "const unsigned char rep_page_${name}[] = {\n${bytes}};\n")
endforeach()
file(WRITE "${OUT}" "${code}")
