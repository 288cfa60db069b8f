#include "method/subjects.h"

static const char *const more[] = {
    /* local steps */
    "def:ratio=8,every=3",
    "saef:ratio=8,every=2,wd=0.01",
    "topk:keep=0.05,every=3,momentum=0.9,outer_momentum=0.5,nesterov=yes",
    "dense:every=3,momentum=0",
    "median:every=2,outer_momentum=0.5",
    "adam:every=3",
    "adam:amsgrad=yes,wd=0.01",
    "codec=topk:keep=0.05,feedback=residual,update=adam,amsgrad=yes,lr=0.001",
    "powersgd:rank=2,every=2",
    "qsgd:every=2,outer_lr=0.7",
    "ef-sign:every=3,momentum=0.9",
    "dqsgd:every=2",
    "regtopk:keep=0.05,every=2",
    "regtopk:keep=0.4,mu=1",
    /* the first steps are dense */
    "regtopk:keep=0.05,warmup=2",
    "qadam:warmup=2",
    "ef-sign:warmup=2",
    "signum:warmup=2",
    "signum:sign_warmup=4",
    "signum:sign_warmup=4,warmup=2,wd=0.01",
    "dqsgd:warmup=2",
    "powersgd:warmup=2",
    "def:ratio=8,every=2,warmup=4",
    /* plain tensors */
    "topk:keep=0.02,min=100",
    "regtopk:keep=0.02,min=100",
    "def:ratio=8,plain=bias|conv*",
    "qadam:min=100",
    "qadam:kx=0,min=100",
    "qsgd:plain=*.weight,min=2",
    "powersgd:min=600",
    /* all parameters as one piece */
    "topk:keep=0.05,scope=model",
    "regtopk:keep=0.05,scope=model,momentum=0.9,warmup=1",
    "regtopk:keep=0.4,mu=1,scope=model,combine=sparse-allreduce,values=f16",
    "topk:keep=0.02,scope=model,feedback=none",
    /* the first step is too long for the weights, later ones are not */
    "topk:keep=0.0005,warmup=1,lr=15,reject=yes",
    "regtopk:keep=0.0005,warmup=1,lr=15,momentum=0.5,reject=yes,combine=sparse-allreduce",
    /* clipping, decay, rates */
    "dense:clip=1,wd=0.01",
    "ef:ratio=8,clip=1,wd=0.01",
    "signum:clip=1,wd=0.01",
    "ef-sign:momentum=0.9,nesterov=yes,wd=0.01",
    "ef-sign:momentum=0.9,nesterov=yes,every=2,outer_momentum=0.5",
    "signum:wd=0.5,decay=momentum",
    "dqsgd:clip=3",
    "terngrad:sigma=2.5",
    "terngrad:sigma=1.5,min=100,warmup=2",
    "terngrad:sigma=1.5,every=2,momentum=0.9",
    "dense:schedule=cosine,ramp=3",
    "topk:schedule=step,keep=0.05,momentum=0.9,values=f16",
    "qadam:rates=theory,schedule=sqrt,kx=0",
    "qadam:bias=yes",
    "qadam:kg=off,kx=4",
    "qadam:kg=off,kx=0",
    /* other combines */
    "signsgd:zero=keep",
    "signum:zero=keep,wd=0.01",
    "regtopk:keep=0.05,combine=sparse-allreduce,momentum=0.9,form=cur",
    "topk:keep=0.05,combine=shard",
    "qadam:combine=parameter-server",
    "ef-sign:combine=parameter-server",
    "dqsgd:bits=meanstd,combine=allgather",
    "dqsgd:bits=rms,norm=2",
    "dqsgd:bits=kappa,kappa=30,alpha=0.9",
    "dqsgd:bits=error,smoothness=3",
    /* composed methods */
    "direction=momentum,feedback=residual,codec=topk:keep=0.05,combine=allgather,update=subtract",
    "direction=adam,feedback=residual,codec=log:k=3,combine=shard",
    "direction=average,codec=sign,combine=vote,lr=0.001",
    "direction=nesterov,codec=bf16,momentum=0.5",
    "direction=nesterov,feedback=residual,codec=f16,lr=1,update=subtract",
    "direction=nesterov,codec=f32,every=2,clip=1,wd=0.01",
    "codec=low-rank:rank=2,feedback=residual,update=sgd",
    "direction=momentum,codec=bf16,momentum=0.5",
    "direction=adam,codec=f32,combine=allreduce,wd=0.01",
    "codec=scaled-sign,feedback=residual,update=adam,lr=0.001",
    "lambda=0.3,codec=block:ratio=8,feedback=residual,direction=momentum,update=subtract",
    "codec=f16,feedback=residual,combine=shard",
    "direction=momentum,codec=f32,combine=median,clip=1",
};

const char *subject(uint32_t index)
{
    terse_method_about about;
    uint32_t methods = 0;
    if (terse_method_list(index, &about) == TERSE_OK)
        return about.name;
    while (terse_method_list(methods, &about) == TERSE_OK)
        methods++;
    return index - methods < sizeof more / sizeof more[0] ? more[index - methods] : NULL;
}

uint64_t subject_every(const char *spec)
{
    const char *const every = strstr(spec, "every=");
    return every ? strtoull(every + 6, NULL, 10) : 1;
}

int subject_tosses(const char *spec)
{
    if (strstr(spec, "zero=keep"))
        return 0;
    return strncmp(spec, "sign", 4) == 0 || strstr(spec, "codec=sign") != NULL;
}

terse_layout *subject_layout(void)
{
    terse_layout *layout = NULL;
    assert_int_equal(terse_layout_create(&layout), TERSE_OK);
    assert_int_equal(terse_layout_add(layout, "conv.weight", 4, (const uint64_t[]){12, 5, 3, 3}),
                     TERSE_OK);
    assert_int_equal(terse_layout_add(layout, "empty", 2, (const uint64_t[]){0, 7}), TERSE_OK);
    assert_int_equal(terse_layout_add(layout, "scalar", 0, NULL), TERSE_OK);
    assert_int_equal(terse_layout_add(layout, "bias", 1, (const uint64_t[]){77}), TERSE_OK);
    assert_int_equal(terse_layout_add(layout, "linear", 2, (const uint64_t[]){31, 57}), TERSE_OK);
    assert_int_equal(terse_layout_add(layout, "tail", 1, (const uint64_t[]){700}), TERSE_OK);
    return layout;
}

struct crew_plan subject_plan(const char *spec, uint32_t workers, const terse_layout *layout)
{
    return (struct crew_plan){
        .spec = spec, .workers = workers, .layout = layout, .seed = test_seed() + 40, .steps = 60};
}
