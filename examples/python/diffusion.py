"""A small latent diffusion pipeline on random weights, from noise to a picture: `pip install diffusers`, then `python examples/python/diffusion.py [FILE.png]`.

The denoiser and the decoder are compiled; the scheduler and the loop are diffusers' own. For a trained model only the two assignments to `pipe` change.
"""

import sys

import torch
from diffusers import AutoencoderKL, DDIMScheduler, StableDiffusionPipeline, UNet2DConditionModel


def random_pipeline():
    torch.manual_seed(0)
    unet = UNet2DConditionModel(
        sample_size=16, block_out_channels=(32, 64), down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"), up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        cross_attention_dim=32, attention_head_dim=8, norm_num_groups=8,
    )
    vae = AutoencoderKL(
        block_out_channels=(16, 32, 32, 32), down_block_types=("DownEncoderBlock2D",) * 4, up_block_types=("UpDecoderBlock2D",) * 4, latent_channels=4, norm_num_groups=8, sample_size=128,
    )
    return StableDiffusionPipeline(
        vae=vae.eval(), text_encoder=None, tokenizer=None, unet=unet.eval(), scheduler=DDIMScheduler(steps_offset=1, clip_sample=False), safety_checker=None, feature_extractor=None, requires_safety_checker=False,
    )


def picture(pipe, text, steps):
    return pipe(
        prompt_embeds=text, negative_prompt_embeds=torch.zeros_like(text), height=128, width=128, num_inference_steps=steps, generator=torch.Generator().manual_seed(1), output_type="pt",
    ).images[0]


def main(path="diffusion.png", steps=4):
    pipe = random_pipeline()
    pipe.set_progress_bar_config(disable=True)
    text = torch.randn(1, 7, 32, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        wanted = picture(pipe, text, steps)
        pipe.unet = torch.compile(pipe.unet, backend="ingot")
        pipe.vae.decode = torch.compile(pipe.vae.decode, backend="ingot")
        found = picture(pipe, text, steps)
    print(f"{steps} steps, picture of {found.shape[2]} x {found.shape[1]}, largest difference from eager {float((found - wanted).abs().max()):.1e}")
    pipe.image_processor.numpy_to_pil(pipe.image_processor.pt_to_numpy(found[None]))[0].save(path)
    print("written to", path)


if __name__ == "__main__":
    main(*sys.argv[1:2])
